"""Views of a repository for people: plain records, text and pictures."""
