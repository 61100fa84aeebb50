"""Between `Producer.send` and a broker's answer: which queue, how often, in whose order. Open: all of it."""
