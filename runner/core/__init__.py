"""The pure core: values, events, the fold over them, and every decision. No I/O, no clock."""
