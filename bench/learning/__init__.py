"""Small models in numpy: what bench/feedback and bench/training train."""
