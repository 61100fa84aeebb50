"""What commands write for people that is no result: errors, with the ids of their pages."""
