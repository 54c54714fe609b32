"""What is made of a log after the fact: folds with text at the end."""
