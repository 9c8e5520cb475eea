"""The exercises of chapter 07."""
