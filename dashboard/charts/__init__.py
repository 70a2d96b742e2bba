"""The charts as plain Vega-Lite specifications: rows or cells in, a dict out. Pure.

Only titles, field names and colours are written here. Text from the store reaches Vega as data, which it draws
literally. The colours are safe for common kinds of colour blindness, and shapes repeat them. Names stand above what
they name, on lines of their own, so that none is cut at any width.

Step: dashboard
Start: drawing
"""
