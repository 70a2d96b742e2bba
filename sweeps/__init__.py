"""Decides and describes; the modules beside the folders are values that all steps share.

Knows no Ray, adb or Streamlit.
"""
