"""Says of each archive PDF whether others find it to be what it claims: PDF/A-3b, PDF/UA-1, the packet attached."""

import sys

import page
import pikepdf

for path in sys.argv[1:]:
    faults = []
    for profile in (page.ValidationProfile.PDF_A_3B, page.ValidationProfile.PDF_UA_1):
        report = page.validate_pdf(path, profile=profile)
        faults += [f"{failure.rule_id} {failure.message}" for failure in report.failures]
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
