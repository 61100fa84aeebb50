"""Words that everybody shares: values without behaviour towards the world. Pure."""
