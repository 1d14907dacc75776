"""What every Spark job that writes needs: one commit, made once."""
