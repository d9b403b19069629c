/// The walk of ``WALScan``: the committed frames so far, and those that wait for their commit.
package struct WALWalk {
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
        if limit == 0 { return }
        _ = try Self.wholeFrames(1...limit, of: header, read: read) { _, frame in
            guard let frameHeader = WALFrameHeader(frame, continuing: &checksum, of: header) else { return false }
            try take(frameHeader, visit: visit)
            return true
        }
    }

    /// Reads frames in batches, each frame with its page.
    ///
    /// - Parameter visit: Is given the number and the bytes of each frame; false ends the walk.
    /// - Returns: The first frame that was not visited, or that ended the walk: it is not in the file.
    package static func wholeFrames(
        _ frames: ClosedRange<UInt32>, of header: WALHeader, read: WALScan.Reader,
        visit: (UInt32, UnsafeRawBufferPointer) throws -> Bool
    ) throws -> UInt32 {
        let stride = header.frameStrideBytes
        let framesPerBatch = max(1, batchBytes / stride)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: framesPerBatch * stride, alignment: 4096)
        defer { buffer.deallocate() }
        var next = frames.lowerBound
        while next <= frames.upperBound {
            let wanted = min(framesPerBatch, Int(frames.upperBound - next) + 1) * stride
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            let got = min(max(try read(header.frameOffset(next), piece), 0), wanted) / stride
            for index in 0..<got {
                let frame = UnsafeRawBufferPointer(rebasing: piece[index * stride..<(index + 1) * stride])
                guard try visit(next, frame) else { return next }
                next += 1
            }
            if got * stride < wanted { break }
        }
        return next
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
                let frameHeader = WALFrameHeader(UnsafeRawBufferPointer(buffer)), frameHeader.belongs(to: header)
            else { return }
            checksum = frameHeader.checksum
            try take(frameHeader, visit: visit)
            next += 1
        }
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
