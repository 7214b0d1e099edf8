"""A document as one self-contained HTML file: MathML, inline SVG, no script, no network."""
