"""Views: from facts to what a page shows. Each page is a function of the desk and of what was asked."""
