"""Commands under the names that other projects gave them."""
