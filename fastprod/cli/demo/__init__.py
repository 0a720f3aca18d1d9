"""What `fastprod demo --spark` runs and compares."""
