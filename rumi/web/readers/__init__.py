"""Readers: conversion of pages, documents and pictures for models, in confined processes."""
