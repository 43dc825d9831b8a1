"""What calls run as processes: their bounds, their surroundings, and the channels of agents among them."""
