"""Helper processes in which large or costly values are decoded, checked and encoded, so that the loop is never held."""
