# farewell NAME prints a goodbye.
farewell() {
	echo "not written yet"
}
