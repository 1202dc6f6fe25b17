"""Reports: what runs, studies, sweeps and attacks left, as one self-contained page."""
