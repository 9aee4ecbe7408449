"""What a Bloom module makes of the numbers that it is told: as much as a bitmap has, and room for
uneven shards."""

from __future__ import annotations

import math

import pytest

from scraper.dedup.sizing import FIRST, FURTHER, Shape

LEAST, MOST = 65_536 - 64, 1_048_576 - 64  # bytes of a shard


def told(shape: Shape, shard_bytes: int) -> tuple[float, int]:
    """Error rate and capacity, as the scripts say them."""
    return float(repr(shape.error_rate)), int(shard_bytes * 8 / shape.reserved)


@pytest.mark.parametrize("shard_bytes", [LEAST, MOST])
@pytest.mark.parametrize("shape", [FIRST, FURTHER])
def test_redisbloom(shape: Shape, shard_bytes: int) -> None:
    """`bloom_init` with BLOOM_OPT_NOROUND; NONSCALING, so that the error rate is not halved first."""
    error_rate, capacity = told(shape, shard_bytes)
    bits_a_url = -math.log(error_rate) / 0.480453013918201
    assert math.ceil(0.693147180559945 * bits_a_url) == shape.hashes
    assert shard_bytes - 16 <= math.ceil(int(capacity * bits_a_url) / 64) * 8 <= shard_bytes


@pytest.mark.parametrize("shard_bytes", [LEAST, MOST])
@pytest.mark.parametrize("shape", [FIRST, FURTHER])
def test_valkey_bloom(shape: Shape, shard_bytes: int) -> None:
    """`compute_bitmap_size` and `optimal_k_num` of the crate that it is built on."""
    error_rate, capacity = told(shape, shard_bytes)
    bitmap_bytes = math.ceil(capacity * math.log(error_rate) / (-8 * math.log(2) ** 2))
    assert round(bitmap_bytes * 8 / capacity * math.log(2)) == shape.hashes
    assert shard_bytes - 16 <= bitmap_bytes <= shard_bytes


@pytest.mark.parametrize("shape", [FIRST, FURTHER])
def test_the_fullest_shard_has_room(shape: Shape) -> None:
    mean = LEAST * 8 / shape.bits
    _, capacity = told(shape, LEAST)
    assert capacity > mean + 8 * math.sqrt(mean)
