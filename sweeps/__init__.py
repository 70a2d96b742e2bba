"""Plans, decides and reports; the modules outside the folders are values that all steps share.

Does not import Ray, adb or Streamlit.
"""
