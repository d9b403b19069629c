import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The time of day, for records that people read. It is not used to order events or to wait.
package enum WallClock {
    /// Whole seconds since 1970, in UTC.
    package static var secondsSince1970: UInt64 { UInt64(millisecondsSince1970 / 1000) }

    /// Milliseconds since 1970, in UTC.
    package static var millisecondsSince1970: Int {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME, &now) == 0 else { return 0 }
        return max(0, Int(now.tv_sec)) * 1000 + Int(now.tv_nsec) / 1_000_000
    }

    /// A time in file names: `20261121T223319Z`.
    package static func compactUTC(_ seconds: UInt64) -> String { utc(seconds, "%Y%m%dT%H%M%SZ") }

    /// A time in messages and JSON: `2026-11-21T22:33:19Z`.
    package static func utc(_ seconds: UInt64) -> String { utc(seconds, "%Y-%m-%dT%H:%M:%SZ") }

    /// A day in messages: `2026-11-21`.
    package static func utcDay(_ seconds: UInt64) -> String { utc(seconds, "%Y-%m-%d") }

    private static func utc(_ seconds: UInt64, _ format: String) -> String {
        var time = time_t(clamping: seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 64)
        strftime(&text, text.count, format, &parts)
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// Times in nanoseconds that no change of the clock affects, for comparison between processes.
package enum MonotonicTime {
    package static var now: UInt64 { cplatform_monotonic_ns() }
    /// A deadline that never comes.
    package static let never = UInt64.max
}

extension Duration {
    /// The duration in nanoseconds, clamped to the range of UInt64.
    package var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : product.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000)).partialValue
    }
}

/// Pauses of the calling thread.
package enum Pause {
    /// Sleeps for `duration` on the monotonic clock, or less when a signal arrives.
    package static func sleep(for duration: Duration) {
        let (seconds, attoseconds) = duration.components
        guard seconds >= 0, attoseconds >= 0 else { return }
        var request = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        nanosleep(&request, nil)
    }
}
