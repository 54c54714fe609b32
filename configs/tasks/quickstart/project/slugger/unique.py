"""Slugs that nobody else has."""

from slugger.slug import DEFAULT_LIMIT, slugify


def unique_slug(title, taken, limit=DEFAULT_LIMIT):
    """A slug that is not in `taken`, with the lowest free number from 2 on if one is needed."""
    slug = slugify(title, limit)
    if slug not in taken:
        return slug
    number = 1 + sum(1 for other in taken if other.startswith(slug))
    return f"{slug}-{number}"
