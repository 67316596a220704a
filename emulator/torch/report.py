"""What Cinch did with a job, in one screen, from the reports of its ranks."""
import glob
import json
import os


def summary(folder, setting, tool):
    return "report"
