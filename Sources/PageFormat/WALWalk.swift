/// The walk of ``WALScan``: the committed frames so far, and those that wait for their commit.
struct WALWalk {
    let header: WALHeader
    let checking: WALScan.Checking

    private(set) var committed: [UInt32] = []
    private(set) var databasePages: UInt32 = 0
    private(set) var committedChecksum: WALChecksum
    private(set) var pending: [UInt32] = []
    private var pendingHeaders: [WALFrameHeader] = []
    private var checksum: WALChecksum

    /// The bytes of one read; several frames of the largest pages fit.
    private static let batchBytes = 512 * 1024

    init(header: WALHeader, checking: WALScan.Checking) {
        self.header = header
        self.checking = checking
        checksum = header.checksum
        committedChecksum = header.checksum
    }

    /// Walks frames 1 to `limit`, or to the first that does not belong.
    mutating func run(
        limit: UInt32, read: WALScan.Reader, visit: (UInt32, WALFrameHeader) throws -> Void
    ) throws {
        switch checking {
        case .checksums: try runWholeFrames(limit: limit, read: read, visit: visit)
        case .saltsOnly: try runHeaders(limit: limit, read: read, visit: visit)
        }
    }

    private mutating func runWholeFrames(
        limit: UInt32, read: WALScan.Reader, visit: (UInt32, WALFrameHeader) throws -> Void
    ) throws {
        let stride = header.frameStrideBytes
        let framesPerBatch = max(1, WALWalk.batchBytes / stride)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: framesPerBatch * stride, alignment: 4096)
        defer { buffer.deallocate() }
        var next = UInt32(1)
        while next <= limit {
            let wanted = min(framesPerBatch, Int(limit - next) + 1) * stride
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            let got = min(max(try read(header.frameOffset(next), piece), 0), wanted) / stride
            for index in 0..<got {
                let frame = UnsafeRawBufferPointer(rebasing: piece[index * stride..<(index + 1) * stride])
                guard let frameHeader = accept(frame) else { return }
                try take(frameHeader, visit: visit)
            }
            if got * stride < wanted { return }
            next += UInt32(got)
        }
    }

    private mutating func runHeaders(
        limit: UInt32, read: WALScan.Reader, visit: (UInt32, WALFrameHeader) throws -> Void
    ) throws {
        let bytes = WALFrameHeader.headerBytes
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes, alignment: 8)
        defer { buffer.deallocate() }
        var next = UInt32(1)
        while next <= limit {
            guard try read(header.frameOffset(next), buffer) == bytes,
                let frameHeader = accept(UnsafeRawBufferPointer(buffer))
            else { return }
            try take(frameHeader, visit: visit)
            next += 1
        }
    }

    /// The header of a frame that belongs to this WAL; nil for the frame that ends the walk.
    private mutating func accept(_ frame: UnsafeRawBufferPointer) -> WALFrameHeader? {
        guard let frameHeader = WALFrameHeader(frame), frameHeader.salts == header.salts, frameHeader.pageNumber > 0
        else { return nil }
        switch checking {
        case .saltsOnly:
            checksum = frameHeader.checksum
        case .checksums:
            checksum.add(frame: frame, bigEndian: header.checksumsAreBigEndian)
            if checksum != frameHeader.checksum { return nil }
        }
        return frameHeader
    }

    private mutating func take(
        _ frameHeader: WALFrameHeader, visit: (UInt32, WALFrameHeader) throws -> Void
    ) throws {
        pending.append(frameHeader.pageNumber)
        pendingHeaders.append(frameHeader)
        guard frameHeader.endsTransaction else { return }
        let first = committed.count + 1
        for (index, pendingHeader) in pendingHeaders.enumerated() {
            try visit(UInt32(first + index), pendingHeader)
        }
        committed += pending
        databasePages = frameHeader.databasePages
        committedChecksum = checksum
        pending.removeAll(keepingCapacity: true)
        pendingHeaders.removeAll(keepingCapacity: true)
    }
}
