"""The store: writes results from the journal to MLflow, and reads them back.

Step: store
Start: mlflow
"""
