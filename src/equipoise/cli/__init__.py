"""The command line. A command parses, calls one public function and prints."""
