"""JAX train steps to measure: decoder models that offload, rematerialise or keep activations."""
