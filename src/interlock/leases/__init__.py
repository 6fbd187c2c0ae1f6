"""What all that is owned shares: it is tied to a body, kept alive, waited for, lost in time, and cleaned up behind."""
