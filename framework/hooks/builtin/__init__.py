"""Policies that need nothing but the standard library, in by the same door as a stranger's."""
