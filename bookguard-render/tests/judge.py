"""Says of each archive PDF whether others find it to be what it claims: PDF/A-3b, PDF/UA-1, the packet attached."""

import re
import sys

import page
import pikepdf

# This version takes a carriage return at the end of a stream's data for a part of the line end; later ones do not.
LENGTH = "PDFA3B-STREAM-LENGTH-001"
# It also reads the widths of PostScript outlines as 0 if the font states its matrix, even the default one.
MATRIX = "width 0.000 in its embedded CIDFontType0C program"


def lengths_are_right(path):
    with open(path, "rb") as file:
        text = file.read()
    streams = re.finditer(rb"/Length (\d+)[^>]*>>\s*?stream\n", text)
    return all(text[stream.end() + int(stream[1]) :].startswith(b"\nendstream") for stream in streams)


for path in sys.argv[1:]:
    faults = []
    for profile in (page.ValidationProfile.PDF_A_3B, page.ValidationProfile.PDF_UA_1):
        report = page.validate_pdf(path, profile=profile)
        failures = [one for one in report.failures if one.rule_id != LENGTH or not lengths_are_right(path)]
        faults += [f"{failure.rule_id} {failure.message}" for failure in failures if MATRIX not in failure.message]
        if not report.is_compliant and not report.failures:
            faults.append(f"not {profile}")
    with pikepdf.open(path) as pdf:
        faults += pdf.check_pdf_syntax()
        attached = pdf.attachments.get("packet.json")
        if attached is None:
            faults.append("no packet.json is attached")
        else:
            with open(path + ".json", "rb") as packet:
                if attached.get_file().read_bytes() != packet.read():
                    faults.append("packet.json is not the packet")
            if attached.obj.AFRelationship != pikepdf.Name.Source:
                faults.append("packet.json is not the document's source")
        if pdf.Root.Lang != "en":
            faults.append("the document's language is not English")
    print("; ".join(str(fault) for fault in faults) or "good")
