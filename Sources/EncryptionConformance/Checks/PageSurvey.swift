import Foundation
import PageFormat
import StoreCrypto
import StoreTools
import Synchronization

/// The findings of a scan of the pages beside their authenticity: how random they look, and their initialization
/// vectors.
///
/// Of each page 1,024 bytes in four pieces are counted, so that a scan costs little more than authentication alone. Its
/// memory is bounded: a cell of the map stands for several pages of a large file, and of many vectors a sample is kept.
final class PageSurvey: PageInspector {
    /// A stored image and its vector.
    private struct Vector {
        let high: UInt64
        let low: UInt64
        let page: UInt32
        /// The frame of the WAL; 0 for an image in the main file.
        let frame: UInt32
    }

    struct Entropy: Sendable {
        var pages = 0
        var sum = 0.0
        var lowest = 8.0

        /// Bits for each byte, on average over the pages; nil where no page was read.
        var mean: Double? { pages > 0 ? sum / Double(pages) : nil }

        mutating func add(_ bits: Double) {
            pages += 1
            sum += bits
            lowest = min(lowest, bits)
        }
    }

    private struct State {
        var pagesPerCell = 1
        var cells: [Entropy] = []
        var histogram = [UInt64](repeating: 0, count: 256)
        var vectors: [Vector] = []
        /// Vectors are kept whose low bits under this mask are zero.
        var sampleMask: UInt64 = 0
        var unevenPages: [UInt32] = []
        var unevenCount = 0
        /// Pages whose newest image is in the WAL.
        var inWAL: Set<UInt32> = []

        mutating func keep(_ vector: Vector) {
            guard vector.low & sampleMask == 0 else { return }
            vectors.append(vector)
            if vectors.count > ConformanceLimits.vectors {
                sampleMask = sampleMask << 1 | 1
                vectors.removeAll { $0.low & sampleMask != 0 }
            }
        }
    }

    private let layout: PageLayout?
    private let state = Mutex(State())

    /// - Parameter layout: The layout of encrypted pages; nil for plain SQLite.
    init(layout: PageLayout?) { self.layout = layout }

    // MARK: Seeing pages

    func beginFrames() { state.withLock { $0.vectors.removeAll { $0.frame > 0 } } }

    func beginPages(_ count: Int, inWAL: Set<UInt32> = []) {
        state.withLock { state in
            state.inWAL = inWAL
            // The findings of an earlier scan do not count: a store that SQLite refuses is scanned again.
            state.histogram = [UInt64](repeating: 0, count: 256)
            (state.unevenPages, state.unevenCount) = ([], 0)
            state.vectors.removeAll { $0.frame == 0 }
            state.pagesPerCell = max(1, (count + ConformanceLimits.mapCells - 1) / ConformanceLimits.mapCells)
            state.cells = [Entropy](
                repeating: Entropy(), count: (count + state.pagesPerCell - 1) / state.pagesPerCell)
        }
    }

    func see(frame: UInt32, ofPage number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool) {
        guard isAuthentic, let vector = vector(of: bytes, page: number, frame: frame) else { return }
        state.withLock { $0.keep(vector) }
    }

    func see(page number: UInt32, _ bytes: UnsafeRawBufferPointer, isAuthentic: Bool) {
        // Zeros are no content that could be read: the page was never written, or was wiped.
        if layout != nil, !isAuthentic, PageCodec.isZero(bytes) { return }
        let vector = isAuthentic ? vector(of: bytes, page: number, frame: 0) : nil
        let clear = layout?.clearBytes(ofPage: number) ?? 0
        let end = layout?.usableBytes ?? bytes.count
        withUnsafeTemporaryAllocation(of: UInt16.self, capacity: 256) { counts in
            counts.initialize(repeating: 0)
            let total = Self.count(bytes, from: clear, to: min(end, bytes.count), into: counts)
            let (bits, isEven) = Self.spread(counts, total: total)
            state.withLock { state in
                // A checkpoint was interrupted in the middle of the page.
                if !isAuthentic, state.inWAL.contains(number) { return }
                for value in 0..<256 { state.histogram[value] += UInt64(counts[value]) }
                let cell = (Int(number) - 1) / state.pagesPerCell
                if cell < state.cells.count { state.cells[cell].add(bits) }
                if let vector { state.keep(vector) }
                if !isEven {
                    state.unevenCount += 1
                    if state.unevenPages.count < ConformanceLimits.evidenceLines { state.unevenPages.append(number) }
                }
            }
        }
    }

    private func vector(of bytes: UnsafeRawBufferPointer, page: UInt32, frame: UInt32) -> Vector? {
        guard let layout, bytes.count >= layout.codeOffset else { return nil }
        let high = bytes.loadUnaligned(fromByteOffset: layout.vectorOffset, as: UInt64.self)
        let low = bytes.loadUnaligned(fromByteOffset: layout.vectorOffset + 8, as: UInt64.self)
        return Vector(high: high, low: low, page: page, frame: frame)
    }

    /// Bytes of one piece, of which four are counted on each page.
    private static let pieceBytes = 256
    private static let sampleBytes = 4 * pieceBytes

    /// - Returns: How many bytes were counted.
    private static func count(
        _ bytes: UnsafeRawBufferPointer, from start: Int, to end: Int, into counts: UnsafeMutableBufferPointer<UInt16>
    ) -> Int {
        let length = end - start
        guard length > 0 else { return 0 }
        guard length > sampleBytes else {
            for byte in bytes[start..<end] { counts[Int(byte)] += 1 }
            return length
        }
        for piece in 0..<4 {
            let first = start + piece * (length - pieceBytes) / 3
            for byte in bytes[first..<first + pieceBytes] { counts[Int(byte)] += 1 }
        }
        return sampleBytes
    }

    /// n * log2(n) for the counts of a sample.
    private static let logarithms = (0...sampleBytes).map { $0 == 0 ? 0 : Double($0) * Double($0).log2 }

    /// The entropy of a sample in bits for each byte, scaled so that random bytes have 8, and whether its values are
    /// spread as random ones are.
    private static func spread(
        _ counts: UnsafeMutableBufferPointer<UInt16>, total: Int
    ) -> (bits: Double, isEven: Bool) {
        guard total > 0 else { return (8, true) }
        var (sum, squares) = (0.0, 0)
        for count in counts {
            sum += logarithms[Int(count)]
            squares += Int(count) * Int(count)
        }
        let size = Double(total)
        let bits = size.log2 - sum / size
        // A sample of n random bytes has less than 8 bits: by about 255 / (2 n ln 2).
        let expected = 8 - 255 / (2 * size * 0.693_147)
        let chiSquared = Double(squares) * 256 / size - size
        // 255 degrees of freedom: deviation 22.6. Ten deviations do not occur in the pages of any real file.
        return (total < sampleBytes ? 8 : min(8, 8 * bits / expected), total < 256 || chiSquared < 255 + 10 * 22.6)
    }

    // MARK: Results

    /// Entropy by cell of the map.
    var cells: [Entropy] { state.withLock { $0.cells } }
    var pagesPerCell: Int { state.withLock { $0.pagesPerCell } }

    /// Pages whose bytes are not spread as random ones: how many, and the first of them.
    var unevenPages: (count: Int, first: [UInt32]) { state.withLock { ($0.unevenCount, $0.unevenPages.sorted()) } }

    /// Sampled bytes, and how many deviations their spread is from that of random bytes.
    var spread: (bytes: Int, deviations: Double) {
        let histogram = state.withLock { $0.histogram }
        let total = Double(histogram.reduce(0, +))
        guard total > 0 else { return (0, 0) }
        let expected = total / 256
        let chiSquared = histogram.reduce(0.0) { $0 + (Double($1) - expected) * (Double($1) - expected) / expected }
        return (Int(total), (chiSquared - 255) / 22.6)
    }

    /// Images that share a vector, as pairs of descriptions, and how many vectors were compared of how many parts.
    func repeatedVectors() -> (repeated: [String], compared: Int, share: UInt64) {
        let (vectors, mask) = state.withLock { ($0.vectors, $0.sampleMask) }
        let sorted = vectors.sorted { ($0.high, $0.low, $0.page, $0.frame) < ($1.high, $1.low, $1.page, $1.frame) }
        var repeated: [String] = []
        for (one, other) in zip(sorted, sorted.dropFirst()) where one.high == other.high && one.low == other.low {
            // The image that a checkpoint copied into the main file is in the WAL as well.
            if one.page == other.page, one.frame == 0 { continue }
            repeated.append("\(Self.name(one)) and \(Self.name(other)) have the same vector")
        }
        return (repeated, sorted.count, mask + 1)
    }

    private static func name(_ vector: Vector) -> String {
        vector.frame > 0 ? "frame \(vector.frame) (page \(vector.page))" : "page \(vector.page)"
    }
}

extension Double {
    /// The logarithm to the base of 2.
    fileprivate var log2: Double { Foundation.log2(self) }
}
