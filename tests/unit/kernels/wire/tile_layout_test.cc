#include "kernels/wire/tile_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"

namespace cinch::wire {
namespace {

// A codec for each width that codes may have; of no family.
std::vector<CodecFormat> allShapes() {
  std::vector<CodecFormat> shapes;
  uint8_t id = 1;
  for (uint8_t bits : {1, 2, 3, 4, 5, 6, 8, 16})
    for (uint8_t metaBytes : {0, 2, 4, 10}) shapes.push_back({id++, bits, metaBytes});
  return shapes;
}

CodecFormat anyCodec(std::mt19937_64& random) {
  return codec::kCodecs[random() % codec::kCodecs.size()].format;
}

std::string describe(CodecFormat shape) {
  return std::to_string(shape.bits) + " bits, blocks with " + std::to_string(shape.blockMetaBytes) +
         " bytes";
}

std::vector<uint32_t> randomCodes(CodecFormat shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> codes(kBlockElems);
  for (uint32_t& code : codes) code = static_cast<uint32_t>(random()) & ((1u << shape.bits) - 1);
  return codes;
}

std::vector<uint8_t> packed(CodecFormat shape, const std::vector<uint32_t>& codes) {
  std::vector<uint8_t> bytes(shape.blockCodeBytes(), 0);
  for (uint32_t i = 0; i < codes.size(); ++i) insertCode(shape, bytes.data(), i, codes[i]);
  return bytes;
}

// Every byte of a piece is metadata of one block, codes of one block, or padding between the two.
TEST(TileLayout, PartsFillTilesWithoutOverlap) {
  constexpr uint64_t kTiles = 3;
  for (const CodecFormat shape : allShapes()) {
    SCOPED_TRACE(describe(shape));
    std::vector<int> owners(kTiles * shape.tileBytes(), 0);
    const auto own = [&](uint64_t first, uint64_t nBytes) {
      for (uint64_t i = first; i < first + nBytes; ++i) ++owners.at(i);
    };
    for (uint64_t block = 0; block < kTiles * kTileBlocks; ++block) {
      own(metaOffset(shape, block), shape.blockMetaBytes);
      own(codesOffset(shape, block), shape.blockCodeBytes());
    }
    const uint64_t usedMetaBytes = kTileBlocks * shape.blockMetaBytes;
    for (uint64_t i = 0; i < owners.size(); ++i) {
      const uint64_t inTile = i % shape.tileBytes();
      const bool isPadding = inTile >= usedMetaBytes && inTile < shape.tileMetaBytes();
      ASSERT_EQ(owners[i], isPadding ? 0 : 1) << i;
    }
  }
}

TEST(TileLayout, CodesAndTilesAreAligned) {
  for (const CodecFormat shape : allShapes()) {
    EXPECT_EQ(shape.tileMetaBytes() % kAlignment, 0u) << describe(shape);
    EXPECT_LT(shape.tileMetaBytes(), kTileBlocks * shape.blockMetaBytes + kAlignment);
    EXPECT_EQ(shape.tileBytes() % kAlignment, 0u) << describe(shape);
  }
}

// The table of docs/wire-format.md.
TEST(TileLayout, SizesOfTheDocument) {
  struct Row {
    const char* codec;
    uint32_t id, metaBytes, bits, tileBytes;
  };
  constexpr Row kRows[] = {
      {"q2", 2, 4, 2, 288},      {"q3", 3, 4, 3, 416},     {"q4", 4, 4, 4, 544},
      {"q5", 5, 4, 5, 672},      {"q6", 6, 4, 6, 800},     {"q8", 8, 4, 8, 1056},
      {"h2", 34, 2, 2, 272},     {"h3", 35, 2, 3, 400},    {"h4", 36, 2, 4, 528},
      {"sign", 49, 2, 1, 144},   {"fp8", 56, 2, 8, 1040},  {"bf16", 62, 0, 16, 2048},
      {"fp16", 63, 0, 16, 2048}, {"fp32", 61, 0, 32, 4096}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.codec);
    const codec::CodecInfo* const codec = codec::findCodec(row.codec);
    ASSERT_NE(codec, nullptr);
    EXPECT_EQ(codec->format.id, row.id);
    EXPECT_EQ(codec->format.blockMetaBytes, row.metaBytes);
    EXPECT_EQ(codec->format.bits, row.bits);
    EXPECT_EQ(codec->format.tileBytes(), row.tileBytes);
  }
}

TEST(TileLayout, PlacesInATile) {
  const CodecFormat q4 = codec::formatOf("q4");
  EXPECT_EQ(metaOffset(q4, 0), 0u);
  EXPECT_EQ(codesOffset(q4, 0), 32u);
  EXPECT_EQ(codesOffset(q4, 7), 32u + 7 * 64);
  EXPECT_EQ(metaOffset(q4, 8), 544u);
  EXPECT_EQ(metaOffset(q4, 9), 544u + 4);
}

TEST(TileLayout, PlanesAreWholeBytesOfAnOctet) {
  for (uint32_t bits = 1; bits <= 16; ++bits) {
    const uint32_t low = lowPlaneBits(bits), high = highPlaneBits(bits);
    EXPECT_EQ(low & (low - 1), 0u) << bits;
    EXPECT_LE(low, bits);
    EXPECT_GT(2 * low, bits);
    EXPECT_EQ(low + high, bits);
  }
  for (const CodecFormat shape : allShapes()) {
    const uint32_t high = highPlaneBits(shape.bits);
    EXPECT_EQ(high & (high - 1), 0u) << "no more than two planes: " << describe(shape);
    EXPECT_EQ(highPlaneOffset(shape) + kBlockElems * high / 8, shape.blockCodeBytes());
  }
}

TEST(TileLayout, CodesComeBack) {
  for (const CodecFormat shape : allShapes()) {
    const auto codes = randomCodes(shape, shape.id);
    const auto bytes = packed(shape, codes);
    for (uint32_t i = 0; i < kBlockElems; ++i)
      ASSERT_EQ(extractCode(shape, bytes.data(), i), codes[i]) << describe(shape) << " " << i;
  }
}

// Each bit of a block belongs to one code.
TEST(TileLayout, ACodeChangesItsOwnBitsAlone) {
  for (const CodecFormat shape : allShapes()) {
    const std::vector<uint32_t> none(kBlockElems, 0);
    std::vector<int> owners(shape.blockCodeBytes() * 8, 0);
    for (uint32_t i = 0; i < kBlockElems; ++i) {
      auto codes = none;
      codes[i] = (1u << shape.bits) - 1;
      const auto bytes = packed(shape, codes);
      for (size_t bit = 0; bit < owners.size(); ++bit) owners[bit] += bytes[bit / 8] >> bit % 8 & 1;
    }
    for (int count : owners) ASSERT_EQ(count, 1) << describe(shape);
  }
}

// The codes of values 8n to 8n + 7 take whole bytes of each plane, in order.
TEST(TileLayout, OctetsDoNotShareBytes) {
  for (const CodecFormat shape : allShapes()) {
    std::vector<uint32_t> codes(kBlockElems, 0);
    for (uint32_t i = 8; i < 16; ++i) codes[i] = (1u << shape.bits) - 1;
    std::vector<uint8_t> expected(shape.blockCodeBytes(), 0);
    const uint32_t low = lowPlaneBits(shape.bits), high = highPlaneBits(shape.bits);
    for (uint32_t i = 0; i < low; ++i) expected[low + i] = 0xff;
    for (uint32_t i = 0; i < high; ++i) expected[highPlaneOffset(shape) + high + i] = 0xff;
    EXPECT_EQ(packed(shape, codes), expected) << describe(shape);
  }
}

TEST(TileLayout, FirstCodeIsInTheLowBits) {
  const CodecFormat q4 = codec::formatOf("q4"), q3 = codec::formatOf("q3");
  const auto fours = packed(q4, {0x3, 0xa, 0xf});
  EXPECT_EQ(fours[0], 0xa3);
  EXPECT_EQ(fours[1], 0x0f);
  // Two bits of each, and the third of all after them.
  const auto threes = packed(q3, {1, 4, 7, 2});
  EXPECT_EQ(threes[0], 0b10'11'00'01);
  EXPECT_EQ(threes[32], 0b0110);
}

TEST(TileLayout, SixteenBitsAreLittleEndian) {
  const CodecFormat wide{1, 16, 0};
  const auto bytes = packed(wide, {0x1234, 0xfedc});
  EXPECT_EQ(bytes[0], 0x34);
  EXPECT_EQ(bytes[1], 0x12);
  EXPECT_EQ(bytes[3], 0xfe);
}

// Shards follow one another, cover the bucket, begin at tiles and differ by at most one tile.
TEST(ShardLayout, CutsTheBucketEvenly) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t count = round < 3000 ? static_cast<uint64_t>(round) : random() % (1ull << 36);
    const auto nShards = static_cast<uint32_t>(1 + random() % 64);
    const ShardLayout layout{count, nShards, anyCodec(random)};
    uint64_t next = 0;
    for (uint32_t shard = 0; shard < nShards; ++shard) {
      ASSERT_EQ(layout.firstElem(shard), next);
      ASSERT_TRUE(next % kTileElems == 0 || next == count);
      next += layout.shardElems(shard);
      ASSERT_LE(layout.shardTiles(shard), layout.shardTiles(0));
      ASSERT_LE(layout.shardTiles(0), layout.shardTiles(shard) + 1);
    }
    ASSERT_EQ(next, count);
    ASSERT_EQ(layout.strideBytes() % 16, 0u);
    ASSERT_EQ(layout.totalBytes(), layout.strideBytes() * nShards);
  }
}

// Shards of NCCL's cut: equal numbers of values, each shard with tiles of its own.
TEST(ShardLayout, FixedShardsPartitionTheBucket) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t shardElems = round < 3000 ? static_cast<uint64_t>(round) : random() >> 30;
    const auto nShards = static_cast<uint32_t>(1 + random() % 64);
    const ShardLayout layout = ShardLayout::fixed(shardElems, nShards, anyCodec(random));
    ASSERT_EQ(layout.count, shardElems * nShards);
    const uint64_t tilesPerShard = shardElems / kTileElems + (shardElems % kTileElems > 0);
    for (uint32_t shard = 0; shard < nShards; ++shard) {
      ASSERT_EQ(layout.firstElem(shard), shard * shardElems);
      ASSERT_EQ(layout.shardElems(shard), shardElems);
      ASSERT_EQ(layout.firstTile(shard), shard * tilesPerShard);
      ASSERT_EQ(layout.shardTiles(shard), tilesPerShard);
    }
    ASSERT_EQ(layout.tiles(), tilesPerShard * nShards);
    ASSERT_EQ(layout.strideBytes(), kHeaderBytes + tilesPerShard * layout.codec.tileBytes());
    ASSERT_EQ(layout.strideBytes() % 16, 0u);
    ASSERT_EQ(layout.totalBytes(), layout.strideBytes() * nShards);
  }
}

// What readers walk where one codec serves all: one piece, as long as the message has room for.
TEST(ShardLayout, OneCodecMakesOnePiece) {
  const ShardLayout layout{5 * kTileElems + 1, 4, codec::formatOf("q5")};
  for (uint32_t shard = 0; shard < 4; ++shard) {
    ASSERT_EQ(layout.nPieces(shard), 1u);
    const Piece piece = layout.piece(shard, 0);
    EXPECT_EQ(piece.firstTile, 0u);
    EXPECT_EQ(piece.nTiles, 2u);
    EXPECT_EQ(piece.offset, kHeaderBytes);
    EXPECT_EQ(piece.codec, layout.codec);
    EXPECT_EQ(layout.usedBytes(shard), layout.strideBytes());
  }
}

// One shard alone is stored as it is among others.
TEST(ShardLayout, AFixedShardIsItsOwnLayout) {
  for (uint64_t shardElems : {uint64_t{1}, uint64_t{1024}, uint64_t{5001}, uint64_t{1} << 40}) {
    const ShardLayout all = ShardLayout::fixed(shardElems, 7, codec::formatOf("q8"));
    const ShardLayout one = ShardLayout::fixed(shardElems, 1, codec::formatOf("q8"));
    EXPECT_EQ(one.strideBytes(), all.strideBytes());
    EXPECT_EQ(one.shardTiles(0), all.shardTiles(6));
    EXPECT_EQ(one.totalBytes(), one.strideBytes());
  }
}

// Beyond 2^31 and 2^33 values nothing is cut off.
TEST(ShardLayout, HugeBucketsKeepTheirOffsets) {
  const CodecFormat q4 = codec::formatOf("q4");
  for (uint64_t shardElems : {(uint64_t{1} << 31) + 1, (uint64_t{1} << 33) + 1025}) {
    const ShardLayout layout = ShardLayout::fixed(shardElems, 8, q4);
    EXPECT_EQ(layout.firstElem(7), 7 * shardElems);
    EXPECT_EQ(layout.shardTiles(7), (shardElems + 1023) / 1024);
    EXPECT_EQ(layout.strideBytes(), 16 + (shardElems + 1023) / 1024 * 544);
    EXPECT_EQ(layout.totalBytes(), 8 * layout.strideBytes());

    const uint64_t lastBlock = (shardElems - 1) / kBlockElems;
    EXPECT_LE(kHeaderBytes + codesOffset(q4, lastBlock) + q4.blockCodeBytes(),
              layout.strideBytes());
    EXPECT_EQ(metaOffset(q4, lastBlock), lastBlock / 8 * 544 + lastBlock % 8 * 4);

    const ShardLayout freeCut{8 * shardElems, 8, q4};
    EXPECT_EQ(freeCut.firstElem(8), 8 * shardElems);
    EXPECT_GE(freeCut.shardElems(0), shardElems);
  }
}

}  // namespace
}  // namespace cinch::wire
