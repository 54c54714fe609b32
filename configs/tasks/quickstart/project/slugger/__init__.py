"""Readable slugs for web addresses."""

from slugger.slug import slugify
from slugger.unique import unique_slug

__all__ = ["slugify", "unique_slug"]
