"""The processes of one application: a parent, its children, how they are forked, replaced and ended."""
