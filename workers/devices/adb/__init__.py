"""Android phones over adb."""
