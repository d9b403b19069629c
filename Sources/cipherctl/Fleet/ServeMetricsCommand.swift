import Foundation
import ServicePlatform
import StoreFleet
import StorePlatform
import StoreTools
import Synchronization

/// `serve-metrics`: the metrics and the health of all stores of a fleet, over HTTP.
///
/// One thread reads the stores again and again, another one answers: a request costs no more than the text that is there.
struct ServeMetricsCommand: Command {
    static let syntax = CommandSyntax(
        name: "serve-metrics",
        summary: "serve metrics and health of a fleet over HTTP, as a service",
        operands: [],
        options: [
            OptionSyntax(
                "--listen", value: "ADDRESS", "127.0.0.1:9187 unless given; [::1]:PORT, or unix:PATH for a Unix socket"),
            OptionSyntax("--allow-remote", "let ADDRESS be one that other machines reach"),
            OptionSyntax("--every", value: "AGE", "how often the stores are read, as 15s; 30s unless given"),
            OptionSyntax("--no-key", "show only facts that need no key; nothing is authenticated then"),
        ] + FleetOptions.all + [.json, .quiet],
        examples: [
            "cipherctl serve-metrics",
            "cipherctl serve-metrics --fleet /etc/cipherstore/fleet.toml --listen 127.0.0.1:9200",
            "cipherctl serve-metrics --listen unix:/run/cipherstore/metrics.sock --no-key",
        ],
        notes: [
            "/metrics has the figures of `cipherctl status --fleet --openmetrics`, as of the last reading. /healthz answers "
                + "200 if the last reading is recent and every store could be read, and 503 otherwise.",
            "Only programs of this machine can connect, unless --allow-remote is given: the figures name stores, processes "
                + "and users. There is no TLS and no password; put a proxy before it that has both.",
            "SIGTERM, SIGINT (Ctrl-C) and SIGHUP end it with exit code 0. A unit for systemd: "
                + "Docs/systemd/cipherstore-metrics.service.",
        ])

    private let arguments: ParsedArguments
    private let address: ListeningAddress
    private let lines: FleetCommandLines
    private let jobs: Int?
    private let timeLimit: Duration
    private let every: Duration

    static let usualAddress = "127.0.0.1:9187"
    var endsBySignal: Bool { true }
    static let grace = ServiceLimits.endingGrace + ServiceLimits.killGrace * 2

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        guard let address = ListeningAddress(arguments.value("--listen") ?? Self.usualAddress) else {
            throw UsageError(
                "--listen is no address.",
                hint: "Write 127.0.0.1:9187, [::1]:9187 or unix:/run/cipherstore/metrics.sock.")
        }
        guard address.isLocal || arguments.has("--allow-remote") else {
            throw UsageError(
                "Other machines reach \(address), and the figures name stores, processes and users.",
                hint: "Listen on 127.0.0.1 or a Unix socket. To let other machines connect, add --allow-remote.")
        }
        self.address = address
        every =
            try arguments.value("--every").map { text in
                guard let seconds = AgeText.seconds(text), seconds > 0 else {
                    throw UsageError("--every is not a time.", hint: "For example: --every 15s")
                }
                return .seconds(seconds)
            } ?? .seconds(30)
        lines = try FleetCommandLines(.status, arguments, StatusCommand.syntax)
        jobs = try FleetOptions.jobs(arguments)
        timeLimit = try FleetOptions.timeLimit(arguments) ?? FleetOptions.checkLimit
    }

    func run(_ console: Console) throws -> ExitCode {
        // A file with a mistake ends the service before it begins.
        _ = try FleetOptions.read(arguments)
        Interruption.beginWork()
        IgnoredSignals.outliveReaders()
        let state = MetricsState(staleAfter: every * 3 + timeLimit)
        let server: HTTPServer
        do throws(SystemError) {
            server = try HTTPServer(
                on: address, requiresLocalHost: !arguments.has("--allow-remote"), answer: state.answer)
        } catch {
            throw CommandFailure(
                ExitCode(error), "notListening", what: "The service cannot listen on \(address).", why: "\(error).",
                hint: "End the program that listens there, or give another address with --listen.")
        }
        Console.note("serving metrics on \(server.address); Ctrl-C ends it")
        let ended = DispatchSemaphore(value: 0)
        let reader = Thread { [self] in
            readStores(into: state)
            ended.signal()
        }
        reader.name = "cipherctl.metrics"
        reader.start()
        server.run(isCancelled: { Interruption.hasArrived })
        // Its programs are ended first.
        ended.wait()
        return .ok
    }

    /// Reads the stores until a signal arrives. The fleet file is read each time: a store that is added appears.
    private func readStores(into state: MetricsState) {
        var known: Set<String> = []
        while !Interruption.hasArrived {
            let next = ContinuousClock.now + every
            do {
                let fleet = try FleetOptions.read(arguments)
                let programs = FleetPrograms(jobs: jobs ?? fleet.file.jobs)
                let collection = FleetMetrics(fleet, lines, programs, timeLimit).collect()
                // One that a signal has cut short is none.
                if !Interruption.hasArrived { state.take(collection) }
                // Each once, as long as it lasts.
                for message in collection.messages where !known.contains(message) { Console.note(message) }
                known = Set(collection.messages)
            } catch {
                // The former figures stay, and become old.
                Console.warn(ErrorReport(error).message)
            }
            var polling = Polling(first: .milliseconds(100), until: next, isCancelled: { Interruption.hasArrived })
            while (try? polling.next()) == true {}
        }
    }
}

/// The last reading of the stores, and the answers that it gives.
private final class MetricsState: Sendable {
    private struct Reading {
        let collection: FleetMetrics.Collection
        let time = ContinuousClock.now
    }

    private let last = Mutex<Reading?>(nil)
    private let staleAfter: Duration

    init(staleAfter: Duration) { self.staleAfter = staleAfter }

    func take(_ collection: FleetMetrics.Collection) { last.withLock { $0 = Reading(collection: collection) } }

    func answer(_ request: HTTPRequest) -> HTTPResponse {
        switch request.path {
        case "/metrics": metrics
        case "/healthz": health
        case "/": HTTPResponse(.ok, body: "cipherctl serve-metrics: /metrics, /healthz\n")
        default: HTTPResponse(.notFound)
        }
    }

    private var metrics: HTTPResponse {
        guard let reading = last.withLock({ $0 }) else {
            return HTTPResponse(.unavailable, body: "The stores are being read for the first time.\n")
        }
        return HTTPResponse(
            .ok, contentType: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: reading.collection.text)
    }

    /// Names no store: a load balancer may be asked by anybody.
    private var health: HTTPResponse {
        guard let reading = last.withLock({ $0 }) else {
            return HTTPResponse(.unavailable, body: "The stores are being read for the first time.\n")
        }
        let age = ContinuousClock.now - reading.time
        guard age <= staleAfter else {
            return HTTPResponse(.unavailable, body: "The last reading is \(age.components.seconds) s old.\n")
        }
        let (down, count) = (reading.collection.down.count, reading.collection.stores)
        guard down == 0 else {
            return HTTPResponse(.unavailable, body: "\(down) of \(CountText.text(count, "store")) cannot be read.\n")
        }
        return HTTPResponse(.ok, body: "ok\n")
    }
}
