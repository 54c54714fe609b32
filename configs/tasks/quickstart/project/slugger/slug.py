"""From a title to a slug of limited length."""

from slugger.text import words

DEFAULT_LIMIT = 60


def slugify(title, limit=DEFAULT_LIMIT):
    """Whole words of the title, joined by hyphens, at most `limit` characters in all."""
    kept = []
    length = 0
    for word in words(title):
        if length + len(word) > limit:
            break
        kept.append(word)
        length += len(word)
    return "-".join(kept)
