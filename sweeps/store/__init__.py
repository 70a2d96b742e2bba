"""The store: results go from the journal to MLflow, and are read back from there.

Step: store
Start: mlflow
"""
