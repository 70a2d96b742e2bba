"""Decides and describes: sweep files, plans, statistics, rankings, records. Knows no Ray, adb or Streamlit."""
