"""Kill a run at every write of its log, resume it, and see that nothing is lost or done twice."""
