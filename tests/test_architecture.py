"""The folder listing is the architecture: docs/architecture.md says what imports what, truly."""

import re

import architecture


def test_every_room_is_described():
    described = set(architecture.layers())
    there = {architecture.room(name) for name in architecture.graph()}
    assert there - {"__main__", "_version"} == described


def test_imports_go_down():
    order = architecture.layers()
    upward = [
        f"{module} imports {target}"
        for module, targets in architecture.graph().items()
        for target in targets
        if {architecture.room(module), architecture.room(target)} <= set(order)
        and order.index(architecture.room(module)) < order.index(architecture.room(target))
    ]
    assert upward == []


def test_no_cycles():
    assert architecture.cycle() is None


def test_the_picture_is_drawn_from_the_code():
    assert architecture.picture() in architecture.PAGE.read_text()


def test_files_on_the_page_exist():
    """By their paths, or by their names in the room that was named last."""
    text = architecture.PAGE.read_text().split("## The way of three requests")[1]
    room, missing = "", []
    for folder, name in re.findall(r"`(\w+/)?(\w+\.py)`", text):
        room = folder or room
        if not any((architecture.SOURCE / place / name).exists() for place in {room, folder}):
            missing.append(f"{room}{name}")
    assert missing == []
