"""The domains of tau2-bench as an environment, in process. Needs tau2-bench beside recollect."""
