"""Text in, plain lower-case words out."""

import re
import unicodedata


def fold(text):
    """The text in lower case, with accents removed."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).lower()


def words(text):
    """The words of a text: runs of ASCII letters and digits, after folding."""
    return re.findall(r"[a-z0-9]+", fold(text))
