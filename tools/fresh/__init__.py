"""The simulator of `make fresh`: plans of visits against invented shops."""
