"""Plans, ranks and reports sweeps; its `cli`, `operations` and `api` are the roof of the house and use `workers`.

The other folders import nothing of `workers`, and nothing here imports Ray, adb or Streamlit. The modules outside the
folders are values that all steps share, and `api`.
"""
