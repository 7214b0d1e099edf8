"""Small HLO modules by hand, for the tests of reading them."""

from __future__ import annotations

from symscale.xla.hlo import HloReport, read_hlo

MESH = {"X": 4, "Y": 2}
SUM = """%sum (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %s = bf16[] add(%a, %b)
}
"""
X = "replica_groups=[2,4]<=[4,2]T(1,0)"
Y = "replica_groups={{0,1},{2,3},{4,5},{6,7}}"
# Where a device's quarter along X begins, by table.
PART = """  %ids = s32[8]{0} constant({0, 0, 16, 16, 32, 32, 48, 48})
  %me = u32[] partition-id()
  %row = s32[1]{0} dynamic-slice(%ids, %me), dynamic_slice_sizes={1}
  %at = s32[] reshape(%row)
  %zero = s32[] constant(0)
"""


def module(body: str, before: str = "", header: str = ", num_partitions=8") -> str:
    return (
        f"HloModule test{header}\n\n{before}\nENTRY %main (p: bf16[8]) -> bf16[8] {{\n{body}\n}}\n"
    )


def read(body: str, before: str = "", mesh: dict[str, int] | None = None) -> HloReport:
    return read_hlo(module(body, before), mesh or MESH)


def listed(report: HloReport) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [(found.kind, found.axes, found.volume, found.times) for found in report.collectives]


# A ring of four devices, and a loop that passes NEXT on to its next turn.
RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"

LOOP = f"""%body (s: (s32[], bf16[8])) -> (s32[], bf16[8]) {{
  %s = (s32[], bf16[8]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %x = bf16[8]{{0}} get-tuple-element(%s), index=1
  %sent = bf16[8]{{0}} collective-permute(%x), {RING}
  ROOT %t = (s32[], bf16[8]{{0}}) tuple(%j, NEXT)
}}

%test (s.1: (s32[], bf16[8])) -> pred[] {{
  %s.1 = (s32[], bf16[8]{{0}}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %n = s32[] constant(3)
  ROOT %more = pred[] compare(%i.1, %n), direction=LT
}}
"""
LOOP_BODY = """  %p = bf16[8]{0} parameter(0)
  %k = s32[] constant(0)
  %init = (s32[], bf16[8]{0}) tuple(%k, %p)
  %w = (s32[], bf16[8]{0}) while(%init), condition=%test, body=%body
  ROOT %out = bf16[8]{0} get-tuple-element(%w), index=1"""


def looped(body: str = LOOP_BODY, loop: str = LOOP) -> HloReport:
    return read_hlo(module(body, loop.replace("NEXT", "%x"), header=", num_partitions=4"), {"Y": 4})
