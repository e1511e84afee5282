"""An explanation as data, for `-o json` and `-o yaml`: everything that the table has, and the names it leaves out.

Keys stay as they are between versions; a consumer may count on `fine`, `summary` and the codes of remarks.
"""

from typing import Any

from dra_driver.allocation.diagnosis import ClaimState, Diagnosis, Remark
from dra_driver.allocation.explanation import Change, DeviceReport, Explanation, NodeReport, RequestReport

Object = dict[str, Any]


def as_dict(diagnosis: Diagnosis) -> Object:
    """One claim, Pod or template."""
    body: Object = {
        "kind": diagnosis.kind,
        "name": diagnosis.name,
        "fine": diagnosis.fine,
        "summary": diagnosis.summary,
        "remarks": [_remark(one) for one in diagnosis.remarks],
        "claims": [claim_as_dict(one) for one in diagnosis.claims],
    }
    if diagnosis.explanation is not None:
        body |= _explanation(diagnosis.explanation)
    return body


def _remark(remark: Remark) -> Object:
    fix = {} if remark.fix is None else {"fix": remark.fix}
    return {"code": remark.code, "severity": remark.severity, "text": remark.text, **fix}


def claim_as_dict(claim: ClaimState) -> Object:
    """One claim as it stands."""
    devices = [
        {
            "request": one.request,
            "driver": one.driver,
            "pool": one.pool,
            "device": one.device,
            "productName": one.product,
            "uuid": one.uuid,
        }
        for one in claim.devices
    ]
    return {
        "name": claim.name,
        "state": claim.state,
        "node": claim.node,
        "devices": devices,
        "pods": list(claim.pods),
    }


def _explanation(explanation: Explanation) -> Object:
    return {
        "satisfiable": explanation.satisfiable,
        "fitting": list(explanation.fitting),
        "error": explanation.error,
        "selectors": [
            {
                "claim": claim,
                "request": request,
                "owner": count.owner,
                "index": count.index,
                "expression": count.expression,
                "kept": count.kept,
                "of": count.of,
                "failed": count.failed,
            }
            for claim, request, count in explanation.selectors
        ],
        "nodes": [_node(one) for one in explanation.nodes],
        "nearest": list(explanation.nearest),
        "changes": [_change(one) for one in explanation.changes],
    }


def _node(report: NodeReport) -> Object:
    return {
        "nodes": list(report.nodes),
        "fits": report.fits,
        "error": report.error,
        "obstacles": list(report.obstacles),
        "notes": list(report.notes),
        "requests": [_request(one) for one in report.requests],
    }


def _request(report: RequestReport) -> Object:
    return {
        "claim": report.claim,
        "request": report.request,
        "class": report.device_class,
        "wanted": "all" if report.wanted is None else report.wanted,
        "missing": report.missing,
        "devices": [_device(one) for one in report.devices],
    }


def _device(report: DeviceReport) -> Object:
    blockers = []
    for one in report.blockers:
        blocker: Object = {"kind": str(one.kind), "text": one.text}
        if one.fix is not None:
            blocker["fix"] = one.fix
        if one.holders:
            blocker["holders"] = [
                {"claim": holder.claim, "pods": list(holder.pods)} for holder in one.holders
            ]
        blockers.append(blocker)
    return {**report.device._asdict(), "blockers": blockers}


def _change(change: Change) -> Object:
    body: Object = {"text": change.text, "node": change.node}
    body |= {
        key: value
        for key, value in (("request", change.request), ("before", change.before), ("after", change.after))
        if value is not None
    }
    return body
