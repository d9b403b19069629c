import Dispatch
import Foundation

/// Decides where the values of an observation are delivered.
///
/// An observation delivers its values one after another and in order, whatever the scheduler does.
public protocol ValueObservationScheduler: Sendable {
    /// Whether the first value is delivered before `start` returns. Called once, when the observation starts.
    func immediateInitialValue() -> Bool

    /// Runs an action, later.
    func schedule(_ action: @escaping @Sendable () -> Void)
}

/// A scheduler that delivers on the main actor.
public protocol ValueObservationMainActorScheduler: ValueObservationScheduler {
    /// Runs an action on the main actor, later.
    func scheduleOnMainActor(_ action: @escaping @MainActor () -> Void)
}

extension ValueObservationMainActorScheduler {
    public func schedule(_ action: @escaping @Sendable () -> Void) { scheduleOnMainActor(action) }
}

/// Delivers on a dispatch queue, which must be serial.
public struct AsyncValueObservationScheduler: ValueObservationScheduler {
    let queue: DispatchQueue

    /// - Parameter queue: A serial queue.
    public init(queue: DispatchQueue) { self.queue = queue }

    public func immediateInitialValue() -> Bool { false }
    public func schedule(_ action: @escaping @Sendable () -> Void) { queue.async(execute: action) }
}

extension ValueObservationScheduler where Self == AsyncValueObservationScheduler {
    /// Delivers on a dispatch queue, which must be serial.
    public static func async(onQueue queue: DispatchQueue) -> AsyncValueObservationScheduler {
        AsyncValueObservationScheduler(queue: queue)
    }
}

/// Delivers on the main actor, the first value before `start` returns.
public struct ImmediateValueObservationScheduler: ValueObservationMainActorScheduler {
    /// Traps outside of the main thread.
    public func immediateInitialValue() -> Bool {
        dispatchPrecondition(condition: .onQueue(.main))
        return true
    }

    public func scheduleOnMainActor(_ action: @escaping @MainActor () -> Void) {
        DispatchQueue.main.async(execute: action)
    }
}

extension ValueObservationScheduler where Self == ImmediateValueObservationScheduler {
    /// Delivers on the main actor, the first value before `start` returns. Starting it outside of the main thread
    /// traps.
    public static var immediate: ImmediateValueObservationScheduler { ImmediateValueObservationScheduler() }
}

/// Delivers on the main actor, all values later.
public struct DelayedMainActorValueObservationScheduler: ValueObservationMainActorScheduler {
    public func immediateInitialValue() -> Bool { false }
    public func scheduleOnMainActor(_ action: @escaping @MainActor () -> Void) {
        DispatchQueue.main.async(execute: action)
    }
}

extension ValueObservationScheduler where Self == DelayedMainActorValueObservationScheduler {
    /// Delivers on the main actor, all values later.
    public static var mainActor: DelayedMainActorValueObservationScheduler {
        DelayedMainActorValueObservationScheduler()
    }
}

/// Delivers in tasks.
public struct TaskValueObservationScheduler: ValueObservationScheduler {
    let priority: TaskPriority?
    public func immediateInitialValue() -> Bool { false }
    public func schedule(_ action: @escaping @Sendable () -> Void) { Task(priority: priority) { action() } }
}

extension ValueObservationScheduler where Self == TaskValueObservationScheduler {
    /// Delivers in tasks.
    public static var task: TaskValueObservationScheduler { TaskValueObservationScheduler(priority: nil) }

    /// Delivers in tasks of a priority.
    public static func task(priority: TaskPriority) -> TaskValueObservationScheduler {
        TaskValueObservationScheduler(priority: priority)
    }
}
