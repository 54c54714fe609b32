import unittest

from slugger import slugify


class SlugifyTest(unittest.TestCase):
    def test_words_are_joined_by_hyphens(self):
        self.assertEqual(slugify("Hello,  big world!"), "hello-big-world")

    def test_accents_are_removed(self):
        self.assertEqual(slugify("Crème brûlée"), "creme-brulee")

    def test_words_that_fit_exactly_are_kept(self):
        self.assertEqual(slugify("one two three", limit=13), "one-two-three")

    def test_hyphens_count_towards_the_limit(self):
        self.assertEqual(slugify("one two three", limit=11), "one-two")

    def test_no_slug_is_longer_than_its_limit(self):
        lengths = [len(slugify("a bb ccc dddd", limit)) for limit in (4, 6, 8, 10)]
        self.assertEqual(lengths, [4, 4, 8, 8])


if __name__ == "__main__":
    unittest.main()
