"""Rare made common: limits that are drawn small, and marks in the code that stretch a moment or take the rare way."""
