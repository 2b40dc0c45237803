"""What the equations say: limits of many servers, exact small cases. Never a simulation."""
