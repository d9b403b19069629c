import CipherStore
import PageFormat
import StoreCrypto

/// An object of a replica: a base, which is the whole database at one moment, or a segment, which is the frames of the WAL
/// after it.
///
/// It ends with the SHA-256 of all bytes before, and contains that of the object before it. Anyone can compute both: they
/// find damage and missing objects. Docs/Formats/Replica.md tabulates the offsets.
struct ReplicaObject: Hashable, Sendable {
    enum Offset {
        static let magic = 0
        static let version = 6
        static let byteOrder = 8
        static let pageBytes = 12
        static let storeID = 16
        static let base = 32
        static let segment = 36
        static let previous = 40
        static let after = 72
        static let until = 80
        static let salt1 = 88
        static let salt2 = 92
        static let frame = 96
        static let checksum1 = 100
        static let checksum2 = 104
        static let frameCount = 108
        static let pages = 112
        static let groupCount = 116
        static let sidecarBytes = 120
        static let packCount = 124
        static let gapSince = 128
        static let map = 136
        static let body = 168
    }

    static let magic = "CSREPL"
    static let version: UInt16 = 1
    static let groupBytes = 20

    /// Commits that one poll of the WAL has found. Times are milliseconds since 1970, by the clock of the replicating machine.
    struct Group: Hashable, Sendable {
        /// The frame that ends the last of them.
        let frame: UInt32
        /// The time of the last poll that did not find them.
        let after: UInt64
        /// The time of the poll that found them.
        let seen: UInt64
    }

    let name: ReplicaName
    let pageBytes: Int
    /// The hash at the end of the object before it; `none` for the first one of a store.
    let previous: ObjectHash
    /// Everything that was committed at this time is in the objects up to and including this one. A base was looked at
    /// between `after` and `until`.
    let after: UInt64
    let until: UInt64
    /// Of a base: the position in the WAL up to which it contains everything. Of a segment: the position before its first
    /// frame.
    let position: FramePosition
    /// Of a base: the pages of the database.
    var pages: UInt32 = 0
    /// Of a base: until when the objects before it are complete, if commits between them and it are missing; 0 if none is.
    var gapSince: UInt64 = 0
    /// Of a base: its map. Of a segment: the SHA-256 of the sidecar, also if that is in an object before.
    var map = ObjectHash.none
    var packs: [ObjectHash] = []
    var groups: [Group] = []
    /// The sidecar of the store; empty in a segment if it is that of the object before.
    var sidecar: [UInt8] = []
    /// Frames with their headers, as they are in the WAL.
    var frames: [UInt8] = []

    var strideBytes: Int { WALFrameHeader.headerBytes + pageBytes }
    var frameCount: UInt32 { UInt32(frames.count / strideBytes) }
    /// The last frame up to which it contains everything.
    var lastFrame: UInt32 { position.frame + frameCount }

    /// The bytes of the object, and the hash at their end.
    func encoded() throws -> (bytes: [UInt8], hash: ObjectHash) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Offset.body + frames.count + sidecar.count + 1024)
        bytes.begin(Self.magic, version: Self.version)
        bytes += [position.isBigEndian ? 1 : 0, 0, 0, 0]
        bytes.append(number: UInt32(pageBytes))
        bytes += name.storeID.bytes
        bytes.append(number: name.base)
        bytes.append(number: name.segment)
        bytes += previous.bytes
        bytes.append(number: after)
        bytes.append(number: until)
        for number in [
            position.salts.first, position.salts.second, position.frame, position.checksum.first,
            position.checksum.second, frameCount, pages, UInt32(groups.count), UInt32(sidecar.count),
            UInt32(packs.count),
        ] { bytes.append(number: number) }
        bytes.append(number: gapSince)
        bytes += map.bytes
        for group in groups {
            bytes.append(number: group.frame)
            bytes.append(number: group.after)
            bytes.append(number: group.seen)
        }
        bytes += sidecar
        for pack in packs { bytes += pack.bytes }
        bytes += frames
        let hash = try ObjectHash(of: bytes)
        return (bytes + hash.bytes, hash)
    }

    /// Reads an object, compares its hash, and verifies that its frames continue each other.
    ///
    /// - Returns: The object, the hash at its end, and the position after its last frame.
    static func parse(_ bytes: [UInt8], named name: ReplicaName) throws -> Parsed {
        var reader = FieldReader(bytes.prefix(Offset.body))
        let (found, counts) = try header(&reader)
        guard found.name == name else { throw FormatFault("is the object of another name") }
        let ends = [
            counts.groups * groupBytes, counts.sidecar, counts.packs * ObjectHash.byteCount,
            counts.frames * found.strideBytes, ObjectHash.byteCount,
        ]
        guard bytes.count == ends.reduce(Offset.body, +) else { throw FormatFault("has another length") }
        let hash = ObjectHash(unchecked: Array(bytes.suffix(ObjectHash.byteCount)))
        guard try ObjectHash(of: Array(bytes.dropLast(ObjectHash.byteCount))) == hash else {
            throw FormatFault("was changed")
        }
        var object = found
        var body = FieldReader(bytes[Offset.body..<bytes.count - ends[3] - ObjectHash.byteCount])
        for _ in 0..<counts.groups {
            let group = Group(frame: try body.number(), after: try body.number(), seen: try body.number())
            guard group.frame > object.groups.last?.frame ?? object.position.frame else {
                throw FormatFault("has commits out of order")
            }
            object.groups.append(group)
        }
        object.sidecar = try body.take(counts.sidecar)
        for _ in 0..<counts.packs { object.packs.append(try body.hash()) }
        try body.requireEnd()
        object.frames = Array(bytes[(bytes.count - ends[3] - ObjectHash.byteCount)...].prefix(ends[3]))
        guard object.groups.last?.frame ?? 0 <= object.lastFrame else {
            throw FormatFault("has a commit without its frames")
        }
        return Parsed(object: object, hash: hash, end: try object.endOfFrames())
    }

    /// A whole object that was read.
    struct Parsed: Sendable {
        let object: ReplicaObject
        let hash: ObjectHash
        let end: FramePosition
    }

    /// The numbers of things in an object.
    private struct Counts {
        let frames: Int
        let groups: Int
        let sidecar: Int
        let packs: Int
    }

    private static func header(
        _ reader: inout FieldReader
    ) throws(FormatFault) -> (object: ReplicaObject, counts: Counts) {
        try reader.begin(magic, version: version)
        let order = try reader.take(4)
        let pageBytes = Int(try reader.number(UInt32.self))
        guard let storeID = StoreID(bytes: try reader.take(StoreID.byteCount)) else {
            throw FormatFault("has no store")
        }
        let (base, segment) = (try reader.number(UInt32.self), try reader.number(UInt32.self))
        let previous = try reader.hash()
        let (after, until) = (try reader.number(UInt64.self), try reader.number(UInt64.self))
        let numbers = try (0..<10).map { _ throws(FormatFault) in try reader.number(UInt32.self) }
        let (gapSince, map) = (try reader.number(UInt64.self), try reader.hash())
        guard PageLayout.isPageSize(pageBytes), order[0] <= 1, order.dropFirst().allSatisfy({ $0 == 0 }),
            (segment == 0) == (numbers[6] > 0), segment > 0 || numbers[5] == 0
        else { throw FormatFault("has impossible sizes") }
        let position = FramePosition(
            salt1: numbers[0], salt2: numbers[1], frame: numbers[2], checksum1: numbers[3], checksum2: numbers[4],
            isBigEndian: order[0] == 1)
        return (
            ReplicaObject(
                name: ReplicaName(storeID, base: base, segment: segment), pageBytes: pageBytes, previous: previous,
                after: after, until: until, position: position, pages: numbers[6], gapSince: gapSince, map: map),
            Counts(
                frames: Int(numbers[5]), groups: Int(numbers[7]), sidecar: Int(numbers[8]), packs: Int(numbers[9]))
        )
    }

    /// Reads the fields of fixed width, which are not compared with the hash.
    static func header(_ bytes: [UInt8], named name: ReplicaName) throws(FormatFault) -> ReplicaObject {
        var reader = FieldReader(bytes.prefix(Offset.body))
        let found = try header(&reader).object
        guard found.name == name else { throw FormatFault("is the object of another name") }
        return found
    }

    /// Verifies salts and checksums of the frames.
    private func endOfFrames() throws(FormatFault) -> FramePosition {
        var checksum = position.checksum
        let header = position.header(pageBytes: pageBytes)
        let isWhole = frames.withUnsafeBytes { bytes in
            stride(from: 0, to: bytes.count, by: strideBytes).allSatisfy { start in
                let frame = UnsafeRawBufferPointer(rebasing: bytes[start..<start + strideBytes])
                return WALFrameHeader(frame, continuing: &checksum, of: header) != nil
            }
        }
        guard isWhole else {
            throw FormatFault("has a frame whose checksum does not continue that of the frame before")
        }
        return position.advanced(to: lastFrame, checksum)
    }
}
