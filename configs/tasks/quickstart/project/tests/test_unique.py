import unittest

from slugger import unique_slug


class UniqueSlugTest(unittest.TestCase):
    def test_a_free_slug_is_used_as_it_is(self):
        self.assertEqual(unique_slug("Release notes", {"about"}), "release-notes")

    def test_the_second_one_gets_number_two(self):
        self.assertEqual(unique_slug("Notes", {"notes"}), "notes-2")

    def test_a_gap_in_the_numbers_is_filled(self):
        self.assertEqual(unique_slug("Notes", {"notes", "notes-3"}), "notes-2")


if __name__ == "__main__":
    unittest.main()
