import StoreCrypto
import Synchronization

/// Verifies all pages of a main file, or all committed frames of a WAL, on several threads.
package enum PageScan {
    /// Reads from the file at an offset into a buffer, and returns the number of bytes read; called on all threads.
    package typealias Reader = @Sendable (_ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int

    /// Sees each page that was read; called on all threads. `place` is the number of the page in a main file, of the
    /// frame in a WAL. The bytes are those of the file, and valid during the call only.
    package typealias Inspector =
        @Sendable (
            _ place: UInt32, _ number: UInt32, _ page: UnsafeRawBufferPointer, _ isAuthentic: Bool
        ) -> Void

    /// The result of a scan. Numbers are those of pages in a main file, of frames in a WAL; all in order.
    package struct Report: Hashable, Sendable {
        /// Pages that are not authentic: changed, moved, or written under another key or salt.
        package var damaged: [UInt32] = []
        /// Pages of zeros: not authentic either, though SQLCipher accepts them in auto-vacuum databases, where
        /// `integrity_check` may pass as well.
        package var zero: [UInt32] = []
        /// Pages after the end of the file.
        package var missing: [UInt32] = []
        /// The number of pages that were read and checked.
        package var checked = 0
        /// Whether the scan was cancelled before its end.
        package var wasCancelled = false

        /// Whether every page exists and is authentic.
        package var isClean: Bool { damaged.isEmpty && zero.isEmpty && missing.isEmpty && !wasCancelled }
    }

    /// Pages are read in batches of this size.
    private static let batchBytes = 256 * 1024

    /// Verifies pages 1 to `pageCount` of a main file, except the page of the lock bytes.
    ///
    /// Blocks until done. A page that a checkpoint is just writing can fail: check such pages again.
    ///
    /// - Parameters:
    ///   - skipped: Pages whose valid image is in the WAL.
    ///   - workers: The number of threads.
    ///   - inspect: Sees each page.
    ///   - progress: Called with the number of finished pages, on any thread and not strictly in order.
    ///   - isCancelled: Called before each batch.
    /// - Throws: What `read` throws, and ``PageFormatError``.
    package static func verifyPages(
        keys: borrowing PageKeys,
        pageCount: UInt32,
        skipping skipped: Set<UInt32> = [],
        workers: Int,
        read: @escaping Reader,
        inspect: Inspector? = nil,
        progress: @escaping @Sendable (Int) -> Void = { _ in },
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> Report {
        let layout = keys.layout
        let row = Row(
            firstOffset: 0, strideBytes: layout.pageBytes, pageOffsetInStride: 0, count: Int(pageCount),
            pageNumber: { number in
                number == layout.lockBytePage || skipped.contains(number) ? nil : number
            })
        return try verify(
            row, keys: keys, workers: workers, read: read, inspect: inspect, progress: progress,
            isCancelled: isCancelled)
    }

    /// Verifies every committed frame of a WAL.
    ///
    /// - Throws: What `read` throws, and ``PageFormatError``.
    /// - SeeAlso: ``verifyPages(keys:pageCount:skipping:workers:read:inspect:progress:isCancelled:)``
    package static func verifyFrames(
        keys: borrowing PageKeys,
        of log: WALScan,
        workers: Int,
        read: @escaping Reader,
        inspect: Inspector? = nil,
        progress: @escaping @Sendable (Int) -> Void = { _ in },
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> Report {
        guard log.header.pageBytes == keys.layout.pageBytes else {
            throw PageFormatError.wrongLength(
                what: "a page of the WAL", bytes: log.header.pageBytes,
                expectedBytes: keys.layout.pageBytes)
        }
        let numbers = log.pageNumbers
        let row = Row(
            firstOffset: WALHeader.headerBytes, strideBytes: log.header.frameStrideBytes,
            pageOffsetInStride: WALFrameHeader.headerBytes, count: numbers.count,
            pageNumber: { numbers[Int($0) - 1] })
        return try verify(
            row, keys: keys, workers: workers, read: read, inspect: inspect, progress: progress,
            isCancelled: isCancelled)
    }

    /// Pages at equal distances in a file.
    private struct Row: Sendable {
        var firstOffset: Int
        var strideBytes: Int
        var pageOffsetInStride: Int
        var count: Int
        /// The page number at a position, which counts from 1; nil for positions to skip.
        var pageNumber: @Sendable (UInt32) -> UInt32?
    }

    private static func verify(
        _ row: Row, keys: borrowing PageKeys, workers: Int, read: @escaping Reader, inspect: Inspector?,
        progress: @escaping @Sendable (Int) -> Void, isCancelled: @escaping @Sendable () -> Bool
    ) throws -> Report {
        let found = Mutex(Report())
        let batch = max(1, batchBytes / row.strideBytes)
        let queue = BatchQueue(count: row.count, batch: batch, isCancelled: isCancelled)
        let completed = try queue.run(workers: workers) { queue in
            var codec = try PageCodec(keys: keys)
            var report = Report()
            let buffer = UnsafeMutableRawBufferPointer.allocate(
                byteCount: batch * row.strideBytes, alignment: 4096)
            defer { buffer.deallocate() }
            while let indexes = queue.take() {
                // Where the WAL supersedes everything there is nothing to read.
                if indexes.contains(where: { row.pageNumber(UInt32($0 + 1)) != nil }) {
                    let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(indexes.count * row.strideBytes)])
                    let got = try read(row.firstOffset + indexes.lowerBound * row.strideBytes, piece)
                    let bytes = UnsafeRawBufferPointer(rebasing: piece[..<min(got, piece.count)])
                    check(indexes, of: row, in: bytes, inspect, &codec, &report)
                }
                progress(queue.finish(indexes.count))
            }
            found.withLock { $0.add(report) }
        }
        var report = found.withLock { $0 }
        report.wasCancelled = !completed
        report.sort()
        return report
    }

    private static func check(
        _ indexes: Range<Int>, of row: Row, in piece: UnsafeRawBufferPointer, _ inspect: Inspector?,
        _ codec: inout PageCodec, _ report: inout Report
    ) {
        for index in indexes {
            let place = UInt32(index + 1)
            guard let number = row.pageNumber(place) else { continue }
            let start = (index - indexes.lowerBound) * row.strideBytes + row.pageOffsetInStride
            let end = start + codec.layout.pageBytes
            guard end <= piece.count else {
                report.missing.append(place)
                continue
            }
            let page = UnsafeRawBufferPointer(rebasing: piece[start..<end])
            report.checked += 1
            let isAuthentic = codec.verify(page, number: number)
            inspect?(place, number, page, isAuthentic)
            if isAuthentic { continue }
            if PageCodec.isZero(page) { report.zero.append(place) } else { report.damaged.append(place) }
        }
    }
}

extension PageScan.Report {
    fileprivate mutating func add(_ other: PageScan.Report) {
        damaged += other.damaged
        zero += other.zero
        missing += other.missing
        checked += other.checked
    }

    fileprivate mutating func sort() {
        damaged.sort()
        zero.sort()
        missing.sort()
    }
}
